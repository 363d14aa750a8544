//! The words of the crisis response, in every language of the lexicon.

use super::lexicon::Language;

/// What is said in one language.
pub(super) struct CrisisTexts {
    pub overdose: &'static str,
    pub harm_to_others: &'static str,
    pub third_party: &'static str,
    pub self_harm: &'static str,
    pub opening: &'static str,
    /// At level 3.
    pub act_now: &'static str,
    /// At level 2; places to turn to follow.
    pub act_today: &'static str,
    pub closing: &'static str,
    /// At level 1, after an ordinary reply.
    pub ask: &'static str,
    pub ask_about_others: &'static str,
}

#[cfg(test)]
pub(super) const ALL: [Language; 7] = [
    Language::English,
    Language::German,
    Language::French,
    Language::Spanish,
    Language::Italian,
    Language::Portuguese,
    Language::Dutch,
];

pub(super) const fn of(language: Language) -> &'static CrisisTexts {
    match language {
        Language::English => &ENGLISH,
        Language::German => &GERMAN,
        Language::French => &FRENCH,
        Language::Spanish => &SPANISH,
        Language::Italian => &ITALIAN,
        Language::Portuguese => &PORTUGUESE,
        Language::Dutch => &DUTCH,
    }
}

const ENGLISH: CrisisTexts = CrisisTexts {
    overdose: "If you have taken something that may harm you, call your local emergency number now, even if you feel \
        well. Tell them what you took and when.",
    harm_to_others: "It sounds as if things have gone very far. Before anything happens, please step away and talk to \
        someone now.",
    third_party: "It sounds as if someone you care about is in danger. Please do not leave them alone, and get help \
        together now.",
    self_harm: "Thank you for telling me. It sounds as if you are in a lot of pain. You deserve help with that, and \
        you do not have to carry it alone.",
    opening: "Thank you for telling me. What you say sounds very painful, and I take it seriously. You do not have \
        to go through this alone.",
    act_now: "If you are in immediate danger, call the emergency number now, or go to the nearest emergency room. If \
        you can, be with someone you trust and keep away from anything you could hurt yourself with.",
    act_today: "Please talk to someone today: a person you trust, a doctor, or one of these.",
    closing: "I am a program and cannot call for help myself. I am here to listen while you reach out.",
    ask: "That sounds hard. May I ask: are you safe right now, or are you having thoughts of hurting yourself?",
    ask_about_others: "That sounds worrying. Are they safe right now, and is someone with them? How are you holding up \
        yourself?",
};

const GERMAN: CrisisTexts = CrisisTexts {
    overdose: "Wenn du etwas genommen hast, das dir schaden kann, ruf jetzt die Notrufnummer an, auch wenn du dich gut \
        fühlst. Sag dort, was du genommen hast und wann.",
    harm_to_others: "Es klingt, als wäre es sehr weit gekommen. Bevor etwas passiert: Geh bitte weg und sprich jetzt \
        mit jemandem.",
    third_party: "Es klingt, als wäre jemand in Gefahr, der dir wichtig ist. Lass diesen Menschen bitte nicht allein, \
        und holt euch jetzt gemeinsam Hilfe.",
    self_harm: "Danke, dass du mir das sagst. Es klingt, als ginge es dir sehr schlecht. Du verdienst Hilfe und musst \
        das nicht allein tragen.",
    opening: "Danke, dass du mir das sagst. Was du schreibst, klingt sehr schmerzhaft, und ich nehme es ernst. Du musst \
        da nicht allein durch.",
    act_now: "Wenn du in unmittelbarer Gefahr bist, ruf jetzt die Notrufnummer an oder geh in die nächste Notaufnahme. \
        Wenn du kannst, bleib bei jemandem, dem du vertraust, und halte dich von allem fern, womit du dich verletzen \
        könntest.",
    act_today: "Sprich bitte noch heute mit jemandem: mit einem Menschen, dem du vertraust, einer Ärztin oder einem \
        Arzt, oder hier.",
    closing: "Ich bin ein Programm und kann selbst keine Hilfe rufen. Ich höre dir zu, während du dich an jemanden \
        wendest.",
    ask: "Das klingt schwer. Darf ich fragen: Bist du gerade in Sicherheit, oder denkst du daran, dir etwas anzutun?",
    ask_about_others: "Das klingt beunruhigend. Ist dieser Mensch gerade in Sicherheit, und ist jemand bei ihm? Und wie \
        geht es dir selbst damit?",
};

const FRENCH: CrisisTexts = CrisisTexts {
    overdose: "Si tu as pris quelque chose qui peut te faire du mal, appelle tout de suite le numéro d’urgence, même si \
        tu te sens bien. Dis ce que tu as pris et quand.",
    harm_to_others: "On dirait que les choses sont allées très loin. Avant qu’il n’arrive quelque chose, éloigne-toi et \
        parle à quelqu’un maintenant.",
    third_party: "On dirait que quelqu’un qui compte pour toi est en danger. Ne laisse pas cette personne seule, et \
        cherchez de l’aide ensemble maintenant.",
    self_harm: "Merci de me le dire. Tu sembles souffrir beaucoup. Tu mérites de l’aide, et tu n’as pas à porter cela \
        sans personne.",
    opening: "Merci de me le dire. Ce que tu écris a l’air très douloureux, et je le prends au sérieux. Tu n’as pas à \
        traverser cela sans personne.",
    act_now: "Si tu es en danger immédiat, appelle maintenant le numéro d’urgence ou va aux urgences les plus proches. \
        Si tu peux, reste avec quelqu’un de confiance et éloigne-toi de tout ce avec quoi tu pourrais te blesser.",
    act_today: "Parle à quelqu’un aujourd’hui : une personne de confiance, un médecin, ou ici.",
    closing: "Je suis un programme et je ne peux pas appeler de l’aide moi-même. Je t’écoute pendant que tu demandes de \
        l’aide.",
    ask: "Cela a l’air difficile. Puis-je demander : es-tu en sécurité en ce moment, ou penses-tu à te faire du mal ?",
    ask_about_others: "C’est inquiétant. Cette personne est-elle en sécurité en ce moment, et y a-t-il quelqu’un avec \
        elle ? Et toi, comment vas-tu ?",
};

const SPANISH: CrisisTexts = CrisisTexts {
    overdose: "Si has tomado algo que puede hacerte daño, llama ahora al número de emergencias, aunque te sientas bien. \
        Di qué tomaste y cuándo.",
    harm_to_others: "Parece que las cosas han llegado muy lejos. Antes de que pase algo, aléjate y habla con alguien \
        ahora.",
    third_party: "Parece que alguien que te importa está en peligro. No dejes sola a esa persona y buscad ayuda juntos \
        ahora.",
    self_harm: "Gracias por decírmelo. Parece que estás sufriendo mucho. Mereces ayuda y no tienes que cargar con esto \
        sin nadie.",
    opening: "Gracias por decírmelo. Lo que cuentas suena muy doloroso y lo tomo en serio. No tienes que pasar por esto \
        sin nadie.",
    act_now: "Si estás en peligro inmediato, llama ahora al número de emergencias o ve a urgencias. Si puedes, quédate \
        con alguien de confianza y aléjate de todo con lo que podrías hacerte daño.",
    act_today: "Habla hoy con alguien: una persona de confianza, un médico, o aquí.",
    closing: "Soy un programa y no puedo pedir ayuda por ti. Te escucho mientras buscas a alguien.",
    ask: "Eso suena difícil. ¿Puedo preguntar si estás a salvo ahora, o si piensas en hacerte daño?",
    ask_about_others: "Eso suena preocupante. ¿Está a salvo esa persona ahora, y hay alguien con ella? ¿Y cómo estás tú?",
};

const ITALIAN: CrisisTexts = CrisisTexts {
    overdose: "Se hai preso qualcosa che può farti male, chiama subito il numero di emergenza, anche se ti senti bene. \
        Di’ che cosa hai preso e quando.",
    harm_to_others: "Sembra che le cose siano andate molto oltre. Prima che succeda qualcosa, allontanati e parla con \
        qualcuno adesso.",
    third_party: "Sembra che una persona a cui tieni sia in pericolo. Non lasciarla sola, e cercate aiuto insieme \
        adesso.",
    self_harm: "Grazie per avermelo detto. Sembra che tu stia soffrendo molto. Meriti aiuto e non devi portare tutto \
        questo senza nessuno.",
    opening: "Grazie per avermelo detto. Quello che scrivi sembra molto doloroso e lo prendo sul serio. Non devi \
        affrontarlo senza nessuno.",
    act_now: "Se sei in pericolo immediato, chiama adesso il numero di emergenza o vai al pronto soccorso più vicino. Se \
        puoi, resta con qualcuno di cui ti fidi e stai lontano da tutto ciò con cui potresti farti male.",
    act_today: "Parla con qualcuno oggi: una persona di cui ti fidi, un medico, o qui.",
    closing: "Sono un programma e non posso chiamare aiuto io. Ti ascolto mentre cerchi qualcuno.",
    ask: "Sembra difficile. Posso chiederti: sei al sicuro adesso, o pensi di farti del male?",
    ask_about_others: "È preoccupante. Quella persona è al sicuro adesso, e c’è qualcuno con lei? E tu, come stai?",
};

const PORTUGUESE: CrisisTexts = CrisisTexts {
    overdose: "Se você tomou algo que pode fazer mal, ligue agora para o número de emergência, mesmo que se sinta bem. \
        Diga o que tomou e quando.",
    harm_to_others: "Parece que as coisas foram longe demais. Antes que algo aconteça, afaste-se e fale com alguém \
        agora.",
    third_party: "Parece que alguém importante para você está em perigo. Não deixe essa pessoa sozinha e procurem ajuda \
        juntos agora.",
    self_harm: "Obrigado por me contar. Parece que você está sofrendo muito. Você merece ajuda e não precisa carregar \
        isso sem ninguém.",
    opening: "Obrigado por me contar. O que você diz parece muito doloroso e eu levo a sério. Você não precisa passar \
        por isso sem ninguém.",
    act_now: "Se você está em perigo imediato, ligue agora para o número de emergência ou vá ao pronto-socorro mais \
        próximo. Se puder, fique com alguém de confiança e longe de tudo com que possa se machucar.",
    act_today: "Fale com alguém hoje: uma pessoa de confiança, um médico, ou aqui.",
    closing: "Sou um programa e não posso pedir ajuda por você. Estou aqui para ouvir enquanto você procura alguém.",
    ask: "Isso parece difícil. Posso perguntar: você está em segurança agora, ou pensa em se machucar?",
    ask_about_others: "Isso preocupa. Essa pessoa está em segurança agora, e há alguém com ela? E como está você?",
};

const DUTCH: CrisisTexts = CrisisTexts {
    overdose: "Als je iets hebt ingenomen dat je kan schaden, bel dan nu het alarmnummer, ook als je je goed voelt. Zeg \
        wat je hebt ingenomen en wanneer.",
    harm_to_others: "Het klinkt alsof het heel ver is gekomen. Ga weg voordat er iets gebeurt, en praat nu met iemand.",
    third_party: "Het klinkt alsof iemand om wie je geeft in gevaar is. Laat diegene niet alleen en zoek nu samen hulp.",
    self_harm: "Dank je dat je het me vertelt. Het klinkt alsof je veel pijn hebt. Je verdient hulp en hoeft dit niet \
        alleen te dragen.",
    opening: "Dank je dat je het me vertelt. Wat je zegt klinkt heel pijnlijk en ik neem het serieus. Je hoeft dit niet \
        alleen door te maken.",
    act_now: "Als je direct in gevaar bent, bel dan nu het alarmnummer of ga naar de dichtstbijzijnde spoedeisende hulp. \
        Blijf als het kan bij iemand die je vertrouwt, en blijf weg van alles waarmee je jezelf pijn zou kunnen doen.",
    act_today: "Praat vandaag nog met iemand: iemand die je vertrouwt, een arts, of hier.",
    closing: "Ik ben een programma en kan zelf geen hulp roepen. Ik luister terwijl je iemand zoekt.",
    ask: "Dat klinkt zwaar. Mag ik vragen: ben je nu veilig, of denk je eraan jezelf iets aan te doen?",
    ask_about_others: "Dat klinkt zorgelijk. Is diegene nu veilig, en is er iemand bij? En hoe gaat het met jou?",
};
